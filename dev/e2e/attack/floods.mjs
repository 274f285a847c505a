/** Connections that send bytes of `grpc.mjs` without end, beside a neighbour. What is asserted stands in the tests. */
import { connect } from "node:net";
import assert from "node:assert/strict";
import { begin } from "./grpc.mjs";
import { besideNeighbour, inParallel } from "./rig.mjs";

/** What the neighbour does: calls of each kind, on the core that is attacked. */
export const NEIGHBOUR = { kinds: ["rpc", "authenticate", "socket", "grpc"] };
/** An event of a socket, whatever else happens to it. */
export const happens = (socket, event) => new Promise((done) => socket.once(event, () => done(true)));
export const rest = (ms) => new Promise((rested) => setTimeout(rested, ms));

/**
 * Opens a connection of gRPC and says what clients say first. `window`: as for `begin`; `from`: the address that
 * it comes from, any of 127.0.0.0/8; `reads`: whether it takes what it is sent.
 */
export async function open(server, { window, from = "127.0.0.1", reads = true } = {}) {
  const socket = connect({ host: server.host, port: server.grpcPort, localAddress: from, noDelay: true });
  socket.on("error", () => {});
  await Promise.race([happens(socket, "connect"), happens(socket, "close")]);
  socket.write(begin(window));
  return reads ? socket.resume() : socket.pause();
}

/**
 * Sends what `next(stream)` gives, `{bytes, streams}`, again and again for `ms`, on `width` connections that are
 * opened anew when the server ends them. `stream` is the next number that is free, 1 on a new connection. Gives how
 * many connections the server ended.
 */
export async function flood(server, { width, ms, next, ...how }) {
  const until = Date.now() + ms;
  let ended = 0;
  await inParallel(width, width, async () => {
    while (Date.now() < until) {
      const socket = await open(server, how);
      const closed = happens(socket, "close");
      let stream = 1;
      let drained;
      while (Date.now() < until && socket.writable) {
        const { bytes, streams } = next(stream);
        stream += 2 * streams;
        if (!socket.write(bytes)) {
          drained ??= happens(socket, "drain").then(() => (drained = undefined));
          await Promise.race([drained, closed, rest(100)]);
        } else await new Promise(setImmediate); // The kernel may take all there is, and others want to send, too.
      }
      if (Date.now() < until) ended++;
      socket.destroy();
      await closed;
    }
  });
  return ended;
}

/** Runs an attack beside the neighbour; gives by how much the counter has risen. */
export async function counted(server, name, attack) {
  const before = (await server.counters()).of(name);
  await besideNeighbour(server, attack, NEIGHBOUR);
  const count = (await server.counters()).of(name) - before;
  assert.ok(count > 0, `${name} does not rise`);
  return count;
}
