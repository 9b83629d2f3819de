// A second judge: the ws package as the client of an echo server. Its receiver
// refuses what a server must not send.
//
//   NODE_PATH=.../node_modules node peer.mjs ws://127.0.0.1:9001/
//
// It prints one line a case, "ok NAME" or "FAIL NAME: why", and exits with 1
// when a case failed.
import { createRequire } from 'node:module';
import { once } from 'node:events';
import assert from 'node:assert/strict';

const WebSocket = createRequire(import.meta.url)('ws');
const url = process.argv[2];
const deadline = 60_000;

// open connects. Compression is offered and must not be taken.
async function open(protocols = []) {
  const ws = new WebSocket(url, protocols, { perMessageDeflate: true, maxPayload: 64 << 20 });
  ws.on('error', () => {}); // shows as a close
  await once(ws, 'open');
  assert.equal(ws.extensions, '');
  return ws;
}

// within bounds a wait.
function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in time`)), deadline);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function next(ws) {
  const [data, isBinary] = await within(once(ws, 'message'), 'message');
  return { data, isBinary };
}

async function closed(ws) {
  const [code, reason] = await within(once(ws, 'close'), 'close');
  return { code, reason: reason.toString() };
}

// ends closes with a code and wants it back.
async function ends(ws, code = 1000) {
  const end = closed(ws);
  ws.close(code, 'done');
  assert.equal((await end).code, code);
}

// back sends one message and wants it back as it is.
async function back(ws, message, options = {}) {
  const got = next(ws);
  ws.send(message, options);
  const { data, isBinary } = await got;
  assert.equal(isBinary, typeof message !== 'string');
  assert.ok(Buffer.from(message).equals(data), `${data.length} octets came back of ${message.length}`);
}

const cases = {
  async 'sizes of text and binary'() {
    const ws = await open();
    for (const size of [0, 1, 125, 126, 127, 65535, 65536, 1 << 20, 16 << 20]) {
      await back(ws, 'x'.repeat(size));
      await back(ws, Buffer.alloc(size, 0xff));
    }
    await ends(ws);
  },
  async 'text of all widths'() {
    const ws = await open();
    await back(ws, 'aµ€𐍈\u0000\uffff\u{10ffff}'.repeat(10_000));
    await ends(ws);
  },
  async 'fragments with pings between'() {
    const ws = await open();
    const got = next(ws);
    let pongs = 0;
    ws.on('pong', (data) => assert.equal(data.toString(), `p${pongs++}`));
    for (let i = 0; i < 100; i++) {
      ws.send(`${i},`, { fin: i === 99 });
      ws.ping(`p${i}`);
    }
    const { data } = await got;
    assert.equal(data.toString(), [...Array(100).keys()].map((i) => `${i},`).join(''));
    await back(ws, 'last'); // the last pong is here by now, or comes before it
    assert.equal(pongs, 100);
    await ends(ws);
  },
  async 'thousands of messages in flight'() {
    const ws = await open();
    const count = 20_000;
    let seen = 0;
    const all = new Promise((resolve, reject) => {
      ws.on('message', (data) => {
        if (data.toString() !== `m${seen}`) reject(new Error(`got ${data}, want m${seen}`));
        if (++seen === count) resolve();
      });
    });
    for (let i = 0; i < count; i++) ws.send(`m${i}`);
    await within(all, `${count} messages`);
    await ends(ws);
  },
  async 'close codes'() {
    for (const code of [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4999]) {
      await ends(await open(), code);
    }
    const ws = await open();
    const end = closed(ws);
    ws.close();
    assert.equal((await end).code, 1005); // ws tells an empty close so
  },
  async 'faults'() {
    for (const [name, frame, code] of [
      ['unmasked', [0x81, 0x01, 0x61], 1002],
      ['reserved bit', [0xc1, 0x80, 0, 0, 0, 0], 1002],
      ['reserved opcode', [0x83, 0x80, 0, 0, 0, 0], 1002],
      ['not UTF-8', [0x81, 0x81, 0, 0, 0, 0, 0xff], 1007],
      ['too big', [0x82, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0], 1009],
    ]) {
      const ws = await open();
      const end = closed(ws);
      ws._socket.write(Buffer.from(frame));
      assert.equal((await end).code, code, name);
    }
  },
  async 'subprotocol'() {
    const ws = await open(['first', 'second']);
    assert.equal(ws.protocol, 'first'); // R302
    await ends(ws);
  },
  async 'no upgrade'() {
    const response = await fetch(url.replace('ws:', 'http:'));
    assert.equal(response.status, 404);
  },
};

let failed = false;
for (const [name, run] of Object.entries(cases)) {
  try {
    await within(run(), 'end');
    console.log(`ok ${name}`);
  } catch (e) {
    failed = true;
    console.log(`FAIL ${name}: ${e.message}`);
  }
}
process.exit(failed ? 1 : 0);
