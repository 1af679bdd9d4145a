// A stream of tokens for each request: the header and the first event go out together.
// `node tokens.js [CERTIFICATE KEY]`: with these, over TLS.
'use strict';
const fs = require('fs'), http = require('http'), https = require('https');
const TOKENS = 8, [certificate, key] = process.argv.slice(2);
const create = certificate ? https.createServer.bind(https, { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }) : http.createServer;
const server = create((request, reply) => {
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
