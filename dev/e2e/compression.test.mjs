/**
 * Compressed bodies over REST, both ways: what a client packs is unpacked within the limit of a body, and answers
 * are packed for who accepts it and where it is worth it.
 */
import { after, before, test } from "node:test";
import { request } from "node:http";
import { deflateRawSync, deflateSync, gunzipSync, gzipSync } from "node:zlib";
import assert from "node:assert/strict";
import { startServer, throngOnly } from "./server.mjs";
import { bearer, newPlayer } from "./client.mjs";

let server;
let headers;
before(async () => {
  server = await startServer();
  headers = bearer((await newPlayer(server)).session);
});
after(() => server?.stop());

/** Calls a function of the scripts and gives the answer as it is on the wire: nothing is unpacked. */
function call(id, { accept, coding, body }) {
  const fields = {
    ...headers,
    ...(accept === undefined ? {} : { "accept-encoding": accept }),
    ...(coding ? { "content-encoding": coding } : {}),
    "content-length": body.length,
  };
  return new Promise((done, failed) => {
    const path = `/v2/rpc/${id}?unwrap`;
    const sent = request({ host: server.host, port: server.port, method: "POST", path, headers: fields });
    sent.on("error", failed).on("response", async (response) => {
      const pieces = [];
      for await (const piece of response) pieces.push(piece);
      done({ status: response.statusCode, headers: response.headers, body: Buffer.concat(pieces) });
    });
    sent.end(body);
  });
}

const text = Buffer.from("0123456789".repeat(10_000));

test("what clients pack is unpacked", async () => {
  for (const [coding, body] of [
    ["gzip", gzipSync(text)],
    ["deflate", deflateRawSync(text)],
  ]) {
    const answer = await call("e2e_echo", { coding, body });
    assert.equal(answer.status, 200);
    assert.ok(answer.body.equals(text), coding);
  }
});

test("with the header of zlib, as the standard has it, and within the limit of a body", throngOnly, async () => {
  const answer = await call("e2e_echo", { coding: "deflate", body: deflateSync(text) });
  assert.ok(answer.body.equals(text));
  const large = await call("e2e_echo", { coding: "gzip", body: gzipSync(Buffer.alloc(20 << 20)) });
  assert.deepEqual([large.status, JSON.parse(large.body)], [
    400,
    { code: 3, message: "http: request body too large" },
  ]);
});

test("answers are packed for who accepts it", async () => {
  const answer = await call("e2e_echo", { accept: "deflate;q=0.1, gzip", body: text });
  assert.equal(answer.headers["content-encoding"], "gzip");
  assert.equal(answer.headers.vary, "Accept-Encoding");
  assert.ok(answer.body.length < text.length / 10 && gunzipSync(answer.body).equals(text));
  const plain = await call("e2e_echo", { body: text });
  assert.equal(plain.headers["content-encoding"], undefined);
  assert.ok(plain.body.equals(text));
});

test("and only where it is worth it", throngOnly, async () => {
  const repeat = (times) => Buffer.from(JSON.stringify({ text: "0123456789", times }));
  for (const [times, accept, isPacked] of [
    [102, "gzip", false], // 1,020 bytes
    [103, "gzip", true],
    [103, "gzip;q=0", false],
    [103, "br", false],
    [26_214, "gzip", true], // 256 KiB
    [26_215, "gzip", false],
  ]) {
    const answer = await call("e2e_repeat", { accept, body: repeat(times) });
    assert.equal(answer.headers["content-encoding"], isPacked ? "gzip" : undefined, `${times} ${accept}`);
    const body = isPacked ? gunzipSync(answer.body) : answer.body;
    assert.equal(body.length, 10 * times);
  }
});
