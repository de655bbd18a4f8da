"""The sketch classes that come with the library, one a file. `sdi.sketch` exports them."""
