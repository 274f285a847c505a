/**
 * Accounts that join one match and leave it again, as fast as the server answers: every join and every leave is told
 * to all who are in it. A neighbour plays on beside them.
 *
 * Not here: connections that come and go (connections.test.mjs).
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { http, newPlayer, RawSocket } from "../client.mjs";
import { throngOnly, within } from "../server.mjs";
import { besideNeighbour, CASE_MS_MAX, inParallel, startVictim } from "./rig.mjs";

const ACCOUNTS = 60;
const STORM_MS = 3_000;
const KINDS = { kinds: ["rpc", "register", "authenticate", "socket"] };

let server;
let players;
before(async () => {
  if (throngOnly.skip) return;
  server = await startVictim();
  players = await inParallel(ACCOUNTS, 8, async () => new Stormer(await newPlayer(server)));
});
after(async () => {
  players?.forEach((player) => player.close());
  await server?.stop();
});

/** A player who decodes only what it asked for, so that the attack costs the machine as little as it can. */
class Stormer {
  #session;
  #raw;
  #answered;

  constructor({ session }) {
    this.#session = session;
  }

  async connect() {
    this.#raw = await RawSocket.open(server, this.#session.token);
    this.#raw.frames.removeAllListeners("message");
    this.#raw.frames.on("message", (data) => {
      const text = data.toString();
      if (text.includes('"cid"')) this.#answered?.(text);
    });
  }

  ask(message) {
    const answer = new Promise((answered) => (this.#answered = answered));
    this.#raw.send({ cid: "1", ...message });
    const late = () => `no answer to ${JSON.stringify(message)}`;
    return within(Promise.race([answer, this.#raw.closed.then(JSON.stringify)]), CASE_MS_MAX, late);
  }

  close() {
    this.#raw?.close();
  }
}

/** Joins and leaves until the time is over; gives how often. Who is cut off, because it does not keep up, is back at once. */
async function storm(match_id) {
  const end = Date.now() + STORM_MS;
  let joined = 0;
  const other = new Map();
  await inParallel(ACCOUNTS, ACCOUNTS, async (at) => {
    const player = players[at];
    while (Date.now() < end) {
      const answer = await player.ask({ match_join: { match_id } });
      if (answer.includes('"match":')) joined += 1;
      else other.set(answer, (other.get(answer) ?? 0) + 1);
      const left = await player.ask({ match_leave: { match_id } });
      if (left.includes('"code":1000') || left.includes('"code":1006')) await player.connect();
    }
  });
  return { joined, other: [...other] };
}

async function isWeathered(context, matchId) {
  const { result, report } = await besideNeighbour(server, () => storm(matchId), KINDS);
  context.diagnostic(`${JSON.stringify(result)} beside ${JSON.stringify(report)}`);
  assert.ok(result.joined > ACCOUNTS, `only ${JSON.stringify(result)}`);
}

test("joins and leaves of a relayed match", throngOnly, async (context) => {
  await inParallel(ACCOUNTS, 8, (at) => players[at].connect());
  const stays = await RawSocket.open(server, (await newPlayer(server)).session.token);
  stays.frames.removeAllListeners("message");
  const made = new Promise((done) => stays.frames.once("message", (data) => done(JSON.parse(data))));
  stays.send({ cid: "1", match_create: {} });
  try {
    await isWeathered(context, (await made).match.match_id);
  } finally {
    stays.close();
  }
});

test("joins and leaves of an authoritative match", throngOnly, async (context) => {
  const path = `/v2/rpc/e2e_create_match?http_key=${server.httpKey}&unwrap`;
  const { text } = await http(server, "POST", path, { body: "{}" });
  await isWeathered(context, JSON.parse(text).match_id);
});
