/**
 * Floods at the port of datagrams, each as fast as one thread sends: of noise, of forged ones in a session's name, of a
 * session's own, of probes that are never followed by a proof. What is asserted: a neighbour gets its answers, another
 * session its datagrams, memory stays bounded, what is dropped is counted, and an address that has proved nothing is sent
 * ten challenges a second at most, and less than it has sent.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { newSocketPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { Datagrams } from "../../../examples/datagrams/datagrams.mjs";
import { besideNeighbour, startVictim } from "./rig.mjs";

const FLOOD_MS = 3_000;
const SAY_MS = 20;
const OP_LOSABLE = 13;
const PER_ADDRESS_PER_S = 2_000;
const PER_SESSION_PER_S = 200;
const OPTIONS = {
  "datagram.enabled": true,
  "datagram.port": 0,
  "datagram.per_address_per_s": PER_ADDRESS_PER_S,
  "datagram.per_session_per_s": PER_SESSION_PER_S,
  "engine.cores": 1,
  "runtime.path": fileURLToPath(new URL("../datagrams", import.meta.url)),
};
/** The flood comes from an address of its own, for which limits hold. */
const LIMITED = { "limit.exempt_addresses": "10.0.0.0/8" };

/** Kinds of floods, and what is counted of each where limits of addresses do not hold. */
const FLOODS = {
  noise: "datagrams_unknown",
  forged: "limited_datagrams_per_session",
  own: "limited_datagrams_per_session",
  probes: "limited_datagrams_per_session",
};

async function flood(data) {
  const worker = new Worker(new URL("datagram_flood.mjs", import.meta.url), { workerData: data });
  const [told] = await once(worker, "message");
  return told;
}

/** A player who says something every now and then, and how long it took to come back. */
async function talker(server) {
  const player = await newSocketPlayer(server);
  const [waits, began] = [[], new Map()];
  const onMatchData = ({ data }) => waits.push(performance.now() - began.get(data.toString()));
  const datagrams = await Datagrams.open(player.socket, { host: server.host, onMatchData });
  const { match_id } = (await player.client.rpc(player.session, "e2e_create_match", {})).payload;
  await player.socket.joinMatch(match_id);
  const timer = setInterval(() => {
    const text = String(began.size);
    began.set(text, performance.now());
    datagrams.sendMatchState(match_id, OP_LOSABLE, Buffer.from(text));
  }, SAY_MS);
  return {
    stop() {
      clearInterval(timer);
      datagrams.close();
      player.leave();
      waits.sort((a, b) => a - b);
      return { said: began.size, waits };
    },
  };
}

for (const [kind, counted] of Object.entries(FLOODS)) {
  for (const limited of [false, true]) {
    test(`a flood of ${kind} datagrams${limited ? " from an address that is limited" : ""}`, throngOnly, async (context) => {
      const server = await startVictim({ options: { ...OPTIONS, ...(limited ? LIMITED : {}) } });
      try {
        const victim = await newSocketPlayer(server);
        const { key, id, port } = JSON.parse((await victim.socket.rpc("throng_datagrams")).payload);
        const player = await talker(server);
        const bytes = await server.residentBytes();
        const harm = () => flood({ kind, key, id, port, ms: FLOOD_MS, from: limited ? "127.0.0.2" : "127.0.0.1" });
        const { result } = await besideNeighbour(server, harm);
        const { sent, came } = result;
        const { said, waits } = player.stop();
        victim.leave();
        const grown = (await server.residentBytes()) - bytes;
        const counters = await server.counters();
        const median = Math.round(waits[Math.floor(waits.length / 2)] ?? Infinity);
        context.diagnostic(
          `${sent} sent, ${counters.of("datagrams_lost")} lost in the kernel; of ${said} of a player's ${waits.length} came back, ` +
            `half within ${median} ms; ${grown} bytes more, ${came} bytes came back to the flood`,
        );
        // The kernel drops of a full socket whatever comes, whose it is does not matter to it.
        assert.ok(said > 50 && waits.length > said / 2, `${waits.length} of ${said} came back`);
        assert.ok(median < 250, `half took more than ${median} ms`);
        assert.ok(grown < 32 << 20, `${grown} bytes more`);
        const dropped = counters.of(limited ? "limited_datagrams_per_address" : counted);
        const looked = limited ? PER_ADDRESS_PER_S * (FLOOD_MS / 1_000 + 2) : PER_SESSION_PER_S * (FLOOD_MS / 1_000 + 2);
        assert.ok(sent < looked || dropped > 0, `${dropped} dropped of ${sent}`);
        assert.ok(came <= sent * 1_200, `${came} bytes for ${sent} datagrams`);
        assert.ok(came <= 1_200 * 10 * (FLOOD_MS / 1_000 + 2), `${came} bytes of challenges`);
      } finally {
        await server.stop();
      }
    });
  }
}
