"""Tags: names of versions; a version is retained as long as it has one."""

from datetime import datetime

from pagestore.errors import ExistsError, MissingError
from pagestore.versions.handle import Handle
from pagestore.versions.settings import check_name


def add_tag(handle: Handle, name: str, version: int | str | datetime | None = None) -> None:
    """See Store.tag."""
    check_name(name, "tag")
    settings = handle.state.settings
    if name in settings.tags:
        raise ExistsError(f"tag {name!r} names version {settings.tags[name]} already; untag it first")
    if name in settings.branches:
        raise ExistsError(f"there is a branch {name!r}, which the tag would hide; choose another name")
    number = handle.entry(handle.version if version is None else handle.number(version)).version
    handle.administer(settings=settings._replace(tags={**settings.tags, name: number}))


def remove_tag(handle: Handle, name: str) -> None:
    """See Store.untag."""
    settings = handle.state.settings
    tags = dict(settings.tags)
    if name not in tags:
        raise MissingError(f"there is no tag {name!r}; there is {', '.join(tags) or 'none'}")
    del tags[name]
    handle.administer(settings=settings._replace(tags=tags))
