"""The learning problems, a package each; `package` in conf/task/<task> names it.

A package offers what `decent_core.config.task_package.TaskPackage` asks for.
"""
