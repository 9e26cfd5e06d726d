"""Your own stream: rows of any table, feed or folder, learned in the order they come.

`pip install taskfree[learn]`, then `taskfree learn SOURCE --target COLUMN --state DIR`.
"""
