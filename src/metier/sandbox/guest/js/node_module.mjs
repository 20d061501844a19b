// `node:module` as skills import it, and as the engine itself loads it for CommonJS: what it requires has no workers.

import workers from "node:worker_threads";
import { noWorker } from "./streams.mjs";

workers.Worker = noWorker;

export * from "node:module";
export { default } from "node:module";
