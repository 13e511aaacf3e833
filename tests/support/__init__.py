"""What tests share: reference implementations, toy problems, real ranks."""
