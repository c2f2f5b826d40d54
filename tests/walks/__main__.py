"""Print the walks and measures: `python -m tests.walks`."""

import sys

from tests.walks import main

sys.exit(main())
