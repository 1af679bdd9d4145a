// Node: each request computes for 120 ms in the event loop.
const http = require('node:http');

function burnItems(ms) {
    const end = process.cpuUsage().user + ms * 1000;
    let bytes = 0;
    while (process.cpuUsage().user < end)
        for (let i = 0; i < 2000; i++)
            bytes += JSON.stringify({number: i, text: String(i)}).length;
    return bytes;
}

http.createServer((request, response) => response.end(String(burnItems(120)))).listen(+process.argv[2], '127.0.0.1');
