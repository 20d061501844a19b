// From a file or a text to the function that is called. What the code is written as is found out by compiling it:
// text that could be CommonJS is compiled as that, and if its syntax is not, it is loaded as a module.

import { apart, short } from "./stacks.mjs";

// A name and no literal: the engine would load what stands in a literal before anything is run.
const MODULES = ["node", "module"].join(":");

const readText = Deno.readTextFileSync;
const AsyncFunction = (async () => {}).constructor;
const MaybeCommonJs = /\b(?:module\s*\.\s*exports|exports\s*[.[]|require\s*\()/;
const NeedsNode = /\b(?:require|import)\s*\(|\brequire\s*\.\s*\w/;
const MaybeModule = /(?:^|[;}\s])(?:export[\s{*]|import[\s{*"'])/;
const NotThere = /^Import "([^"]*)" not a dependency/;
const NO_PACKAGE = "nothing is fetched here; put the package into the skill's own node_modules, or bundle it into its file";
const ARGUMENTS = ["exports", "module", "__filename", "__dirname", "require"];

/** Everything a file of the skill exports. */
export async function loadFile(path) {
  if (path.endsWith(".cjs") || path.endsWith(".cts")) return required(path);
  if (path.endsWith(".js")) {
    const text = readText(path);
    if (MaybeCommonJs.test(text)) {
      const made = compiled(text, path);
      if (made !== null) return NeedsNode.test(text) ? required(path) : executed(made, path);
    }
  }
  try {
    return await import(address(path));
  } catch (error) {
    const name = NotThere.exec(error?.message)?.[1];
    throw name === undefined ? error : short(new TypeError(`it imports "${name}", which it does not bring: ${NO_PACKAGE}`));
  }
}

/** The function meant by `name` among what a file exports. */
export function chosen(exports, name) {
  const found = name === "default" ? anyFunction(exports) : exports?.[name];
  if (typeof found === "function") return found;
  throw new TypeError(
    name === "default"
      ? "the file exports no function: write module.exports = async (params, context) => …, or export default"
      : `the file exports no function of the name ${name}`,
  );
}

function anyFunction(exports) {
  if (typeof exports === "function") return exports;
  const found = exports?.default;
  if (typeof found === "function") return found;
  // A CommonJS module loaded as a module has its exports one level down.
  const inner = typeof found === "object" && found !== null ? found : exports;
  for (const other of ["default", "handler", "execute"]) {
    if (typeof inner?.[other] === "function") return inner[other];
  }
  return null;
}

/** A function of `params` and `context` from the text of its body. Its value is returned, or left in `result`. */
export async function compileInline(source, language) {
  // Set in advance so that strict code may assign it too; a declaration of its own is found first.
  globalThis.result = undefined;
  const body = `${source}\n;return result;\n//# sourceURL=inline`;
  try {
    if (language === "javascript") return new AsyncFunction("params", "context", body);
    return (await loadText(`export default async function (params, context) {\n${body}\n}`, language)).default;
  } catch (error) {
    if (!MaybeModule.test(source)) throw error;
    return ofModule(source, language); // its syntax is no function's, so nothing of it was run
  }
}

/** Text that imports or exports is loaded as it is. A function it exports is called; else it left a `result`. */
function ofModule(source, language) {
  return async (params, context) => {
    Object.assign(globalThis, { params, context });
    const called = anyFunction(await loadText(source, language));
    return called === null ? globalThis.result : await apart(called, [undefined, params, context]);
  };
}

function loadText(text, language) {
  return import(`data:application/${language},${encodeURIComponent(text)}`);
}

function compiled(text, path) {
  try {
    const hashbang = text.startsWith("#!") ? `//${text}` : text;
    return new Function(...ARGUMENTS, `${hashbang}\n//# sourceURL=${address(path)}`);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

async function executed(made, path) {
  const module = { exports: {} };
  const folder = path.slice(0, path.lastIndexOf("/"));
  await apart(made, [module.exports, module.exports, module, path, folder, undefined]);
  return module.exports;
}

// Node's loader costs more than the whole run otherwise does, so only code that asks for it gets it.
async function required(path) {
  const { createRequire } = await import(MODULES);
  void globalThis.process; // puts the streams of this run into place before the code can ask for them
  return await apart(createRequire(address(path)), [undefined, path]);
}

function address(path) {
  return `file://${encodeURI(path).replace(/[?#]/g, (odd) => (odd === "?" ? "%3F" : "%23"))}`;
}
