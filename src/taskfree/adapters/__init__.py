"""taskfree inside other libraries: one file each, none of which is imported unless you do."""
