/** The bytes of gRPC and HTTP/2 that the attack tests need, written by hand so that they can be wrong. */

/** Frame types and flags (RFC 9113 section 6). */
export const DATA = 0;
export const HEADERS = 1;
export const PRIORITY = 2;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PING = 6;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;
export const END_STREAM = 1;
export const END_HEADERS = 4;

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** One frame. */
export function frame(kind, flags, stream, payload = Buffer.alloc(0)) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = kind;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A number of 32 bits, as several frames have one. */
export function number(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** What a client sends first; `window` is for what it takes of each answer. */
export function begin(window = 65_535) {
  const setting = Buffer.concat([Buffer.from([0, 4]), number(window)]);
  return Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, setting)]);
}

function literal(name, value) {
  const text = (bytes) =>
    bytes.length < 127
      ? [bytes.length]
      : [127, ((bytes.length - 127) & 127) | 128, (bytes.length - 127) >> 7];
  const [key, data] = [Buffer.from(name), Buffer.from(value)];
  return Buffer.concat([Buffer.from([0, ...text(key)]), key, Buffer.from(text(data)), data]);
}

/** The header block of a call: POST, http, the path, the type; nothing of it is kept in a table. */
export function head(method, fields = {}) {
  const all = { ":path": `/nakama.api.Nakama/${method}`, "content-type": "application/grpc", ...fields };
  const literals = Object.entries(all).map(([name, value]) => literal(name, value));
  return Buffer.concat([Buffer.from([0x83, 0x86]), ...literals]);
}

/** A message behind its five bytes. */
export function framed(message) {
  return Buffer.concat([Buffer.from([0]), number(message.length), message]);
}

/** A request of RpcFunc in protobuf; texts of up to 16,383 bytes. */
export function rpcMessage(id, payload, key = "") {
  const text = (tag, value) => {
    const bytes = Buffer.from(value);
    const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7];
    return Buffer.concat([Buffer.from([(tag << 3) | 2, ...length]), bytes]);
  };
  return Buffer.concat([text(1, id), text(2, payload), ...(key ? [text(3, key)] : [])]);
}
