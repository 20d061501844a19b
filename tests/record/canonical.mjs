// RFC 8785 as JavaScript does it by itself: numbers and strings of JSON.stringify, names sorted by UTF-16 code units.
const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
};
for (const line of (await new Response(Deno.stdin.readable).text()).split("\n").filter((line) => line !== "")) {
  const bytes = new TextEncoder().encode(canonical(JSON.parse(line)));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  console.log(Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join(""));
}
