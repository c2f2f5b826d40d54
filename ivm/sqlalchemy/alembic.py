"""What Alembic needs of a dialect: each statement that defines something is a commit of its own."""

from alembic.ddl.impl import DefaultImpl


class IvmImpl(DefaultImpl):
    """Migrations of a store; views that are kept follow them."""

    __dialect__ = "ivm"
    transactional_ddl = False
