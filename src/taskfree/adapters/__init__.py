"""taskfree inside other libraries: one file each, and none is imported unless you do."""
