'use strict';

// A daemon in a process of its own. It answers at once. After a request for 206 IDs, it says a moment later
// that the user may not connect, and closes. Its argument is the path of the socket.

const fs = require('node:fs');
const { FakeDaemon, replies } = require('./fake.js');

function answer(request, peer) {
  peer.daemon.give(request, peer);
  // A byte for each answer, for a test that cannot run while it waits.
  fs.appendFileSync(`${process.argv[2]}.answers`, '.');
  if (request.count !== 206) return;
  setTimeout(() => {
    peer.reply(replies.error(206));
    peer.socket.once('close', () => fs.writeFileSync(`${process.argv[2]}.closed`, ''));
    peer.socket.destroySoon();
  }, 50);
}

const daemon = new FakeDaemon('', answer, {});
daemon.path = process.argv[2];
daemon.listen().then(() => process.send('ready'));
