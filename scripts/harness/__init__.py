"""What tests and benchmarks run the pipe in.

page       the pipe in this process behind a chat page, which does what Open WebUI does between both
database   the store's database without a host
openwebui  a real Open WebUI with users who chat over HTTP and the websocket
browser    a real Chromium at its page
servers    private Redis and PostgreSQL servers
"""
