// Calls a handler as a host would: `call_handler.mjs FILE JSON`, where the JSON has `params` and what the host does.
// Prints what the handler returned, and everything it asked of the host in the order in which it asked.

const [file, given] = Deno.args;
const { params, output = "", failing = [], words = "", operator = {} } = JSON.parse(given);
const asked = [];

const service = (name, answer) => async (...args) => {
  asked.push([name, ...args]);
  await Promise.resolve();
  if (failing.includes(name) || failing.includes(`${name}:${args[0]?.type}`)) {
    throw new Error(words || `${name} failed at telegram.example`);
  }
  return answer;
};

const context = {
  exec: service("exec", output),
  callLog: { write: service("log") },
  gateway: { post: service("post"), sendMessage: service("send") },
  call: { id: "1", callerId: "+1", transcript: "" },
  operator,
};
const module = { exports: {} };
new Function("module", "exports", Deno.readTextFileSync(file))(module, module.exports);
console.log(JSON.stringify({ returned: await module.exports(params, context), asked }));
