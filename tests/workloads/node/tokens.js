// A stream of tokens for each request: the header and the first event go out together. `node tokens.js`
'use strict';
const http = require('http');
const TOKENS = 8;
const server = http.createServer((request, reply) => {
    request.resume().on('end', () => {
        reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
        let n = 0;
        const timer = setInterval(() => {
            reply.write('data: ' + JSON.stringify({ choices: [{ delta: { content: 'tok' + n } }] }) + '\n\n');
            if (++n < TOKENS) return;
            clearInterval(timer);
            reply.end('data: [DONE]\n\n');
        }, 10);
    });
});
server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));
