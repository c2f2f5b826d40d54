"""SQL on rules: statements are translated to the text of rules, which is what a file keeps."""
