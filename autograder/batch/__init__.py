"""A whole class: collect copies, grade them, record the marks."""
