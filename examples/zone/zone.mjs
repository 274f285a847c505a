/**
 * The zone's packets in JavaScript: what a browser or node needs beside nakama-js to fly in the zone of a throng
 * server. The layout is docs/world/protocol.md.
 *
 * Data in: match data of the server (`welcome`, `place`, `score`, `news`, `View.take`). Data out: what is in sight (`View.known`, `View.at`), and
 * the bytes of controls (`View.controls`). Not done here: sockets, drawing.
 */

/** Opcodes of match data. */
export const SNAPSHOT = 1;
export const CONTROLS = 2;
export const WELCOME = 3;
export const PLACE = 4;
export const SCORE = 5;
export const NEWS = 6;

/** The version of the packets that this reads. */
export const VERSION = 2;

/** Ticks for which a record may be a baseline. */
const AGE_MAX = 31;

const utf8 = new TextDecoder("utf-8", { fatal: true });

class Reader {
  #view;
  #at = 0;

  constructor(bytes) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  #step(bytes) {
    this.#at += bytes;
    return this.#at - bytes;
  }

  u8 = () => this.#view.getUint8(this.#step(1));
  u16 = () => this.#view.getUint16(this.#step(2), true);
  i16 = () => this.#view.getInt16(this.#step(2), true);
  u24 = () => this.u16() + 65_536 * this.u8();
  u32 = () => this.#view.getUint32(this.#step(4), true);
  i32 = () => this.#view.getInt32(this.#step(4), true);

  /** A text behind the number of its bytes. */
  text() {
    const length = this.u8();
    const { buffer, byteOffset } = this.#view;
    return utf8.decode(new Uint8Array(buffer, byteOffset + this.#step(length), length));
  }

  varint() {
    let [number, unit] = [0, 1];
    for (let byte = 128; byte >= 128; unit *= 128) {
      byte = this.u8();
      number += (byte & 127) * unit;
    }
    if (number > 0xffff_ffff) throw new RangeError("a number has more than 32 bits");
    return number;
  }

  zigzag() {
    const number = this.varint();
    return (number >>> 1) ^ -(number & 1);
  }

  end() {
    if (this.#at !== this.#view.byteLength) throw new RangeError("bytes follow the packet");
  }
}

/** Reads a welcome: `{tickRateHz, bins, slot, generation}`. */
export function welcome(bytes) {
  const reader = new Reader(bytes);
  const [kind, version] = [reader.u8(), reader.u8()];
  if (kind !== WELCOME || version !== VERSION) throw new RangeError(`no welcome of version ${VERSION}`);
  const read = { tickRateHz: reader.u8(), bins: reader.u16(), slot: reader.u32(), generation: reader.u32() };
  reader.end();
  return read;
}

/** Reads a place in the line of those who wait for a welcome: `{place, waiting}`, the place from 1. */
export function place(bytes) {
  const reader = new Reader(bytes);
  if (reader.u8() !== PLACE) throw new RangeError("no place");
  const read = { place: reader.u32(), waiting: reader.u32() };
  reader.end();
  return read;
}

/** Reads a pilot's score: `{downed, lost, points}`, how often its ship shot another one down, and was, and what that gave. */
export function score(bytes) {
  const reader = new Reader(bytes);
  if (reader.u8() !== SCORE) throw new RangeError("no score");
  const read = { downed: reader.u32(), lost: reader.u32(), points: reader.i32() };
  reader.end();
  return read;
}

/**
 * Reads news: a list of `{tick, victim, by, text}`, who was shot down by whom, and what a rule of the server says of it.
 * `victim` and `by` are `{slot, generation, name}`; a ship without a pilot has the name "".
 */
export function news(bytes) {
  const reader = new Reader(bytes);
  if (reader.u8() !== NEWS) throw new RangeError("no news");
  const kills = Array.from({ length: reader.u8() }, () => {
    const tick = reader.u32();
    const [victim, by] = [0, 1].map(() => ({ slot: reader.u32(), generation: reader.u32() }));
    [victim.name, by.name] = [reader.text(), reader.text()];
    return { tick, victim, by, text: reader.text() };
  });
  reader.end();
  return kills;
}

/** Where a record is after some ticks if nothing acts on it. */
const flown = (record, ticks) => ({
  ...record,
  x: (record.x + ((record.vx * ticks) >> 2)) | 0,
  y: (record.y + ((record.vy * ticks) >> 2)) | 0,
});

/** A record for drawing: metres, radians, metres a tick. */
export const plain = ({ x, y, vx, vy, pose }) => ({
  x: x / 256,
  y: y / 256,
  vx: vx / 1024,
  vy: vy / 1024,
  heading: ((pose >> 6) / 512) * Math.PI,
  health: (pose >> 2) & 15,
  fired: (pose & 2) !== 0,
});

/** What one client knows. */
export class View {
  /** The newest tick that came; undefined before the first. */
  tick;
  /** How fast time goes, in thousandths. */
  tau = 1000;
  /** The newest control that the client's ship follows. */
  controlSeq = 0;
  /** Far crowds of the newest snapshot: `{bin, count, x, y}`. */
  summaries = [];
  /** By slot: `{generation, records: Map of tick to record, newest}`. */
  known = new Map();
  #bits = 0;

  /** Takes a snapshot; tells how many ships are told of. One that is older than the newest is left out. */
  take(bytes) {
    const reader = new Reader(bytes);
    if (reader.u8() !== SNAPSHOT) throw new RangeError("no snapshot");
    const tick = reader.u32();
    if (this.tick !== undefined && tick <= this.tick) return 0;
    const [tau, controlSeq] = [reader.u16(), reader.u32()];
    const updates = this.#updates(reader, tick);
    const summaries = [];
    for (let [count, bin] = [reader.varint(), 0]; count > 0; count -= 1, bin += 1) {
      bin += reader.varint();
      summaries.push({ bin, count: reader.varint(), x: reader.u8(), y: reader.u8() });
    }
    reader.end();
    for (const update of updates) this.#apply(tick, update);
    const passed = this.tick === undefined ? 33 : tick - this.tick;
    // Shifts by 32 and more are none in JavaScript.
    const older = passed < 32 ? this.#bits << passed : 0;
    this.#bits = (passed <= 32 ? older | (1 << (passed - 1)) : 0) >>> 0;
    Object.assign(this, { tick, tau, controlSeq: Math.max(controlSeq, this.controlSeq), summaries });
    return updates.filter((update) => update.record).length;
  }

  /** Where a ship is believed to be in a tick, the newest one unless told otherwise. */
  at(slot, tick = this.tick) {
    const known = this.known.get(slot);
    return known && flown(known.records.get(known.newest), Math.max(0, tick - known.newest));
  }

  /** The packet of controls `{turn, thrust, fire}`, the first of which has the number `firstSeq`. */
  controls(firstSeq = 1, controls = []) {
    const bytes = new Uint8Array(14 + 2 * controls.length);
    const view = new DataView(bytes.buffer);
    view.setUint8(0, CONTROLS);
    view.setUint32(1, this.tick === undefined ? 0 : this.tick + 1, true);
    view.setUint32(5, this.#bits, true);
    view.setUint8(9, controls.length);
    view.setUint32(10, firstSeq, true);
    controls.forEach(({ turn = 0, thrust = 0, fire = false }, index) => {
      view.setInt8(14 + 2 * index, turn);
      view.setUint8(15 + 2 * index, thrust | (fire ? 4 : 0));
    });
    return bytes;
  }

  /** The records of a snapshot, before anything is changed. */
  #updates(reader, tick) {
    const updates = [];
    for (let [count, slot] = [reader.varint(), 0]; count > 0; count -= 1, slot += 1) {
      slot += reader.varint();
      const head = reader.u8();
      const [age, flags] = [head >> 2, head & 3];
      if (age === 0 && flags === 1) updates.push({ slot });
      else if (age === 0 && flags === 0) {
        const generation = reader.varint();
        const [x, y, vx, vy] = [reader.u24(), reader.u24(), reader.i16(), reader.i16()];
        updates.push({ slot, generation, base: 0, record: { x, y, vx, vy, pose: reader.u16() } });
      } else if (age > 0) {
        const baseline = this.known.get(slot)?.records.get(tick - age);
        if (!baseline) throw new RangeError(`slot ${slot} builds on tick ${tick - age}, which did not come`);
        const record = flown(baseline, age);
        record.x += reader.zigzag();
        record.y += reader.zigzag();
        if (flags & 1) [record.vx, record.vy] = [record.vx + reader.zigzag(), record.vy + reader.zigzag()];
        if (flags & 2) record.pose = reader.u16();
        updates.push({ slot, base: tick - age, record });
      } else throw new RangeError(`a record begins with ${head}`);
    }
    return updates;
  }

  #apply(tick, { slot, generation, base, record }) {
    if (!record) return this.known.delete(slot);
    let known = this.known.get(slot);
    if (!known || (generation !== undefined && known.generation !== generation)) {
      known = { generation, records: new Map() };
      this.known.set(slot, known);
    }
    // The server builds on newer and newer records of a ship.
    for (const told of known.records.keys()) {
      if (told < base || tick - told >= AGE_MAX) known.records.delete(told);
    }
    known.records.set(tick, record);
    known.newest = tick;
  }
}
