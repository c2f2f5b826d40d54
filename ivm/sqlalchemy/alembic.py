"""What Alembic needs of a dialect: that statements which define are commits of their own."""

from alembic.ddl.impl import DefaultImpl


class IvmImpl(DefaultImpl):
    """Migrations of a store; views that are kept follow them."""

    __dialect__ = "ivm"
    transactional_ddl = False
