// `node:worker_threads` as skills import it: no worker can be started.

import workers from "node:worker_threads";
import { noWorker } from "./streams.mjs";

workers.Worker = noWorker;

export * from "node:worker_threads";
export const Worker = noWorker;
export default workers;
