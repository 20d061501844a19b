// A second verifier that shares nothing with the first but the description of the format (docs/record.md).
// Reads an export with stored records on standard input, pieces one after the other, and a checkpoint and its key from files
// that are named as arguments. Prints one JSON object.
const [checkpointFile, keyFile] = Deno.args;
const utf8 = new TextEncoder();
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const base64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const sha256 = async (...parts) => {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
};

async function root(leaves) {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return sha256(Uint8Array.of(0), leaves[0]);
  let middle = 1;
  while (middle * 2 < leaves.length) middle *= 2;
  return sha256(Uint8Array.of(1), await root(leaves.slice(0, middle)), await root(leaves.slice(middle)));
}

const say = (found) => {
  console.log(JSON.stringify(found));
  Deno.exit(0);
};

const lines = (await new Response(Deno.stdin.readable).text()).split("\n").filter((line) => line !== "");
let previous = new Uint8Array(32);
const hashes = [];
for (const line of lines) {
  const entry = JSON.parse(line);
  const wanted = hashes.length + 1;
  if (entry.seq !== wanted) say({ ok: false, problem: `record ${wanted} is missing` });
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, BigInt(entry.seq));
  const body = utf8.encode(entry.record);
  const digest = await sha256(utf8.encode("metier audit record 1\0"), previous, number, body);
  const fits = hex(digest) === entry.hash && hex(previous) === entry.previous && JSON.parse(entry.record).seq === entry.seq;
  if (!fits) say({ ok: false, problem: `record ${entry.seq} does not match its hash` });
  previous = digest;
  hashes.push(digest);
}

const found = { ok: true, records: hashes.length, head: hex(previous), root: hex(await root(hashes)) };
if (checkpointFile) {
  const text = await Deno.readTextFile(checkpointFile);
  const [body, signatures] = text.split("\n\n");
  const [origin, size, rootText, chain] = body.split("\n");
  const signature = base64(signatures.trim().split(" ")[2]).slice(4);
  const key = base64((await Deno.readTextFile(keyFile)).trim().split(" ")[0].split("+").slice(2).join("+")).slice(1);
  const imported = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
  const signed = await crypto.subtle.verify("Ed25519", imported, signature, utf8.encode(`${body}\n`));
  const kept = hashes.slice(0, Number(size));
  found.signed = signed && origin === `metier/${hex(hashes[0]).slice(0, 32)}` && kept.length === Number(size) &&
    chain === `chain ${hex(kept[kept.length - 1])}` && hex(await root(kept)) === hex(base64(rootText));
}
say(found);
