// `node:process` as skills import it: the real one with the streams of this run, as `globalThis` has it.

export * from "node:process";
const process = globalThis.process;
export const { stdin, stdout, stderr, argv, getBuiltinModule } = process;
export default process;
