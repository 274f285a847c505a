/**
 * Floods at the port of datagrams: of noise, of forged ones in a session's name, of a session's own, each as fast as
 * this machine sends. What is asserted: a neighbour gets its answers, another session its datagrams, memory stays
 * bounded, and nobody is sent more than it has sent before it has proved its address.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { newSocketPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { CLIENT_DATA, Datagrams, message, PROBE, seal } from "../../../examples/datagrams/datagrams.mjs";
import { besideNeighbour, startVictim } from "./rig.mjs";

const FLOOD_MS = 3_000;
const BURST = 64;
const OP_LOSABLE = 13;
const OPTIONS = {
  "datagram.enabled": true,
  "datagram.port": 0,
  "engine.cores": 1,
  "runtime.path": fileURLToPath(new URL("../datagrams", import.meta.url)),
};

async function udp() {
  const socket = createSocket("udp4");
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return socket;
}

/** A session with a key that does not open its datagrams itself. */
async function grant(server) {
  const player = await newSocketPlayer(server);
  const told = JSON.parse((await player.socket.rpc("throng_datagrams")).payload);
  const [key, id] = [told.key, told.id].map((text) => Buffer.from(text, "hex"));
  return { ...player, key, id, port: told.port };
}

/** Sends what `next` makes, in bursts, for a while; gives how many. */
async function flood(socket, port, next) {
  let sent = 0;
  for (const end = Date.now() + FLOOD_MS; Date.now() < end;) {
    const burst = Array.from({ length: BURST }, () => {
      sent += 1;
      return new Promise((done) => socket.send(next(sent), port, "127.0.0.1", done));
    });
    await Promise.all(burst);
  }
  return sent;
}

const FLOODS = {
  noise: async () => {
    const noise = Buffer.alloc(1_200, 3);
    return () => noise;
  },
  "forged ones of a session": async ({ id }) => {
    const forged = Buffer.alloc(1_200, 7);
    forged[0] = CLIENT_DATA;
    id.copy(forged, 1);
    return () => forged;
  },
  "a session's own, at many matches": async ({ key, id }) => {
    const body = message("5a0e8b1c-0000-4000-8000-000000000001.nakama", 1, Buffer.alloc(1_000));
    return (sequence) => seal(key, { kind: CLIENT_DATA, id, sequence }, body);
  },
  "a session's probes, from where it never answers": async ({ key, id }) => {
    const body = Buffer.alloc(1_163);
    return (sequence) => seal(key, { kind: PROBE, id, sequence }, body);
  },
};

for (const [name, make] of Object.entries(FLOODS)) {
  test(`a flood of ${name}`, throngOnly, async (context) => {
    const server = await startVictim({ options: OPTIONS });
    const attacker = await udp();
    let came = 0;
    attacker.on("message", (bytes) => (came += bytes.length));
    try {
      const victim = await grant(server);
      const player = await newSocketPlayer(server);
      const waits = [];
      const began = new Map();
      const datagrams = await Datagrams.open(player.socket, {
        host: server.host,
        onMatchData: ({ data }) => {
          const at = began.get(data.toString());
          if (at !== undefined) waits.push(Date.now() - at);
        },
      });
      const { match_id } = (await player.client.rpc(player.session, "e2e_create_match", {})).payload;
      await player.socket.joinMatch(match_id);
      const bytes = await server.residentBytes();
      const next = await make(victim);
      let said = 0;
      const timer = setInterval(() => {
        said += 1;
        began.set(String(said), Date.now());
        datagrams.sendMatchState(match_id, OP_LOSABLE, Buffer.from(String(said)));
      }, 20);
      const { result: sent } = await besideNeighbour(server, () => flood(attacker, victim.port, next));
      clearInterval(timer);
      const grown = (await server.residentBytes()) - bytes;
      const counters = await server.counters();
      waits.sort((a, b) => a - b);
      const worst = waits.at(-1);
      context.diagnostic(
        `${sent} sent; ${waits.length} of ${said} of a player's came back, the last after ${worst} ms; ${grown} bytes more; ` +
          `${counters.of("datagrams_lost")} lost before the server`,
      );
      // The kernel drops of a full socket whatever comes, whose it is does not matter to it.
      assert.ok(waits.length > said / 4, `${waits.length} of ${said} came back`);
      assert.ok(waits[Math.floor(waits.length / 2)] < 250, `half took more than ${waits[Math.floor(waits.length / 2)]} ms`);
      assert.ok(grown < 32 << 20, `${grown} bytes more`);
      assert.ok(came <= sent * 1_200, `${came} bytes for ${sent} datagrams`);
      assert.ok(came < 1_200 * 10 * (FLOOD_MS / 1_000 + 2), `${came} bytes of challenges`);
      datagrams.close();
      player.leave();
      victim.leave();
    } finally {
      attacker.close();
      await server.stop();
    }
  });
}
