"""What several test modules share: the host harness, the browser, private servers."""
