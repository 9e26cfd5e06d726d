"""Tables, feeds and folders of images, learned in the order they come: `taskfree learn`.

It needs `pip install 'taskfree[learn]'`.
"""
