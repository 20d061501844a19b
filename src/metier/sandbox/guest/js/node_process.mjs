// `node:process` as skills import it: the real one with the streams of this run.

import real from "node:process";
import { patchedProcess } from "./streams.mjs";

export * from "node:process";
const process = patchedProcess(real);
export const { stdin, stdout, stderr } = process;
export default process;
