// "1h 30m", "2 hours", "45 min" or "45" as a number of minutes.
export default function ({ length }) {
  const found = /^\s*(?:(\d{1,2})\s*h(?:ours?)?)?\s*(?:(\d{1,4})\s*(?:m(?:in(?:utes?)?)?)?)?\s*$/i.exec(length);
  const minutes = found ? Number(found[1] ?? 0) * 60 + Number(found[2] ?? 0) : 0;
  if (!minutes) throw new Error("that is no length; write it as 1h 30m or 45 min");
  return { minutes };
}
