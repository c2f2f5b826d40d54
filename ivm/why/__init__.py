"""Why a row is in a view, why it is not, and which edits changed it."""
