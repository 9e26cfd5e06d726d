"""Machinery shared by the public packages. Private: nothing here is part of the API."""
