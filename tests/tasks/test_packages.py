"""What a task's package gives is there whatever has been imported of it."""

import pkgutil

import pytest

from decent_core.config.task_package import import_task


@pytest.mark.parametrize("name", ["tasks.gpt2", "tasks.imagenet", "tasks.regression", "tasks.wmt14"])
def test_no_module_takes_the_place_of_a_function_of_its_package(name):
    """Importing a module sets it as an attribute of its package."""
    package = import_task(name)
    assert not set(package.__all__) & {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert callable(package.build)
