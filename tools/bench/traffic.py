"""What a store asks of its file in a commit: bytes, writes, syncs."""

from pagestore import Store


class Traffic:
    """Counts from now on, for as long as the store is open."""

    def __init__(self, store: Store) -> None:
        self.commits = self.bytes = self.writes = self.syncs = 0
        file = store._file
        write, sync = file.pwrite, file.fdatasync

        def pwrite(data: memoryview, offset: int) -> None:
            self.writes += 1
            self.bytes += memoryview(data).nbytes
            write(data, offset)

        def fdatasync() -> None:
            self.syncs += 1
            sync()

        file.pwrite, file.fdatasync = pwrite, fdatasync  # type: ignore[method-assign]

    def per_commit(self) -> dict[str, float]:
        """Rounded, since now and then a commit does more than the others."""
        names = ("bytes", "writes", "syncs")
        return {name: round(getattr(self, name) / max(1, self.commits), 1) for name in names}
