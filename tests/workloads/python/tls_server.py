"""A server of HTTP/1 and HTTP/2 over TLS on asyncio, which keeps TLS in memory (memory BIOs): tls_server.py CERTIFICATE KEY. Prints its port."""
import asyncio
import ssl
import sys


SETTINGS, ACK = b"\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\1\0\0\0\0"


async def serve_streams(reader, writer):
    """Answers each block of header fields with status 200 and "ok", once the stream is complete."""
    writer.write(SETTINGS)
    await reader.readexactly(24)  # the preface
    while True:
        head = await reader.readexactly(9)
        await reader.readexactly(int.from_bytes(head[:3], "big"))
        if head[3] == 4 and not head[4]:
            writer.write(ACK)
        if head[3] in (0, 1) and head[4] & 1:  # DATA, HEADERS
            writer.write(b"\0\0\1\1\4" + head[5:] + b"\x88")
            writer.write(b"\0\0\2\0\1" + head[5:] + b"ok")
        await writer.drain()


async def serve(reader, writer):
    try:
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            await serve_streams(reader, writer)
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
            writer.write(b"ok\n")  # a record of its own, of 25 bytes
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        writer.close()


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[1:3])
    context.set_alpn_protocols(["h2", "http/1.1"])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
