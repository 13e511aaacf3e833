"""Settings of the image task. The values stand in `conf/`; none has a default here."""

from dataclasses import dataclass
from typing import Literal

#: data sets that are held in memory as grey images of 28 x 28 pixels, in 10 classes
FASHION = ("fashion_mnist_12k", "fashion_mnist")
ILSVRC_CLASSES = 1000


@dataclass(frozen=True)
class Settings:
    """Images, augmentation, batches and the model."""

    name: Literal["imagenet"]

    # `fashion_mnist_12k` (embedded), `fashion_mnist` or `ilsvrc` (prepared), a local ImageFolder tree (train/CLASS/*,
    # val/CLASS/*), or parquet files with the schema of the hub's imagenet-1k: a local folder, or a name on the hub
    dataset: str
    source_dir: str | None  # for scripts.prepare: the files that the data set is made from
    data_dir: str  # prepared data lie here
    train_images: int | None  # train on so many, spread evenly over the classes; null: all
    validation_images: int | None  # the same for validation
    mean: tuple[float, ...]  # of each channel, for pixels between 0 and 1
    std: tuple[float, ...]

    train_size: int  # side of the square that is trained on, in pixels
    padding: (
        int  # zeros around an image in memory before it is cropped; images in files get a random resized crop instead
    )
    validation_resize: int  # length of the shorter side
    validation_size: int  # side of the centre crop
    label_smoothing: float

    global_batch: int  # images a step over all workers
    validation_batch: int  # images in a validation batch, at most
    sharding: Literal["iid", "by_label", "dirichlet"]  # one shuffled stream, or workers with classes of their own
    dirichlet_alpha: float | None  # concentration of a worker's classes, for sharding=dirichlet

    # what decodes and crops image files: Pillow and torchvision in processes of their own, or NVIDIA DALI (installed by
    # make setup-dali) in threads of the training process, on its GPU if it has one. Their pixels differ by a rounding
    decoder: Literal["torchvision", "dali"]
    decode_processes: int  # that read and decode image files, for each training process; with decoder=dali: threads
    look_ahead: int  # steps for which files are read in advance
    max_corrupt: int  # unreadable image files that a training process puts up with

    model: Literal["resnet50", "small_resnet"]
    norm: Literal["batch", "group"]  # group: what a worker makes of an image does not depend on its others
    blocks: tuple[int, ...] | None  # small_resnet: residual blocks in each stage
    width: int | None  # small_resnet: channels of the first stage; each later one doubles them and halves the image

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_model()
        if (self.dirichlet_alpha is not None) != (self.sharding == "dirichlet"):
            raise ValueError(
                f"task.dirichlet_alpha={self.dirichlet_alpha} does not fit task.sharding={self.sharding}: give a "
                "positive number with sharding=dirichlet, and null with any other."
            )
        if len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise ValueError(
                f"task.mean={list(self.mean)} and task.std={list(self.std)} need a number for each channel, std > 0."
            )
        if self.dataset in FASHION:
            self._check_fashion()
        elif self.padding or len(self.mean) != 3:
            raise ValueError(
                f"task.dataset={self.dataset} holds colour images in files: task.padding={self.padding} must be 0, and "
                f"task.mean={list(self.mean)} and task.std={list(self.std)} must have three numbers."
            )

    def _check_numbers(self) -> None:
        positive = (
            "train_size",
            "validation_resize",
            "validation_size",
            "global_batch",
            "validation_batch",
            "look_ahead",
        )
        for key in (*positive, "decode_processes", "train_images", "validation_images", "dirichlet_alpha"):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise ValueError(f"task.{key}={value} must be positive.")
        for key in ("padding", "max_corrupt"):
            if getattr(self, key) < 0:
                raise ValueError(f"task.{key}={getattr(self, key)} must be at least 0.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"task.label_smoothing={self.label_smoothing} must be at least 0 and less than 1.")
        if self.validation_size > self.validation_resize:
            raise ValueError(
                f"task.validation_size={self.validation_size} must not exceed "
                f"task.validation_resize={self.validation_resize}."
            )

    def _check_model(self) -> None:
        shape = (self.blocks, self.width)
        if self.model == "resnet50" and shape != (None, None):
            raise ValueError(
                f"task.blocks={self.blocks} and task.width={self.width} shape small_resnet; "
                "task.model=resnet50 is fixed: give null for both."
            )
        if self.model == "small_resnet" and (
            not self.blocks or min(self.blocks) < 1 or self.width is None or self.width < 1
        ):
            raise ValueError(
                "task.model=small_resnet needs task.blocks (a list of positive numbers) and task.width (a positive "
                f"number), not {self.blocks} and {self.width}."
            )

    def _check_fashion(self) -> None:
        if self.decoder != "torchvision":
            raise ValueError(
                f"task.decoder={self.decoder} decodes image files, and task.dataset={self.dataset} holds none: give "
                "task.decoder=torchvision, or a dataset of files."
            )
        sizes = (self.train_size, self.validation_resize, self.validation_size)
        if sizes != (28, 28, 28) or len(self.mean) != 1:
            raise ValueError(
                f"task.dataset={self.dataset} holds grey images of 28 x 28 pixels: task.train_size, "
                f"task.validation_resize and task.validation_size must be 28 (given: {sizes}), "
                f"task.mean={list(self.mean)} and task.std={list(self.std)} must have one number."
            )
