"""Tables, HTML page, pictures and JUnit file of a sweep."""
