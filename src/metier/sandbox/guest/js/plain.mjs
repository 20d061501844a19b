// Plain JSON, or a clear error: what would be lost or changed on its way is refused, not dropped.

import { short } from "./stacks.mjs";

const stringify = JSON.stringify;
const isView = ArrayBuffer.isView;
const isInteger = Number.isInteger;
const isFinite = Number.isFinite;
const test = Function.prototype.call.bind(RegExp.prototype.test);
const TEXT = String;
const OTHERS = [
  [Map, "a Map"],
  [Set, "a Set"],
  [WeakMap, "a WeakMap"],
  [WeakSet, "a WeakSet"],
  [Promise, "a promise"],
  [RegExp, "a regular expression"],
  [Error, "an error"],
  [ArrayBuffer, "an ArrayBuffer"],
];
const COUNT = OTHERS.length;
const MOST_SAFE = Number.MAX_SAFE_INTEGER;
const ODD_NAME = /[^A-Za-z0-9_$.-]/;

/** What is wrong with a value that is not plain JSON. */
export class NotPlain extends TypeError {
  name = "NotPlain";

  constructor(message) {
    super(message);
    short(this);
  }
}

/** The JSON text of a value. `what` names it in the error; undefined becomes null. */
export function encoded(value, what) {
  const check = (name, item) => {
    const kind = wrongKind(item);
    if (kind === null) return item;
    const where = name === "" ? what : test(ODD_NAME, name) ? `a part of ${what}` : `"${name}" in ${what}`;
    throw new NotPlain(`${where} is ${kind}, which is not plain JSON`);
  };
  let text;
  try {
    text = stringify(value, check);
  } catch (error) {
    if (error instanceof NotPlain) throw error;
    throw new NotPlain(`${what} could not be read as plain JSON: ${said(error)}`);
  }
  return text === undefined ? "null" : text;
}

function wrongKind(item) {
  switch (typeof item) {
    case "string":
    case "boolean":
    case "undefined":
      return null;
    case "number":
      if (!isFinite(item)) return TEXT(item);
      return isInteger(item) && (item > MOST_SAFE || item < -MOST_SAFE) ? "a number beyond ±(2^53-1)" : null;
    case "bigint":
      return "a BigInt";
    case "function":
      return "a function";
    case "symbol":
      return "a symbol";
  }
  if (item === null) return null;
  if (isView(item)) return "binary data";
  for (let at = 0; at < COUNT; at++) {
    if (item instanceof OTHERS[at][0]) return OTHERS[at][1];
  }
  return null;
}

/** The words of whatever was thrown, if it can be asked at all. */
export function said(thrown) {
  try {
    return thrown instanceof Error ? TEXT(thrown.message) : TEXT(thrown);
  } catch {
    return "an error that cannot be read";
  }
}

/** The name of whatever was thrown. */
export function calledName(thrown) {
  try {
    return thrown instanceof Error ? TEXT(thrown.name) : "Error";
  } catch {
    return "Error";
  }
}
