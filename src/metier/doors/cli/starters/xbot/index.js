// The contract of an XBot skill. Metier reads it by running this file without permissions, once it is trusted; so nothing may
// happen while it is loaded, only in `onEnable`.
export const skill = {
  id: "__NAME__",
  version: "0.1.0",
  name: "__TITLE__",
  description: "Say in one sentence what this skill does.",
  settings: {
    defaults: { greeting: "Hello" },
    schema: {
      title: "__TITLE__",
      fields: [{ key: "greeting", label: "Greeting", type: "string", help: "What it says first" }],
    },
  },
  capabilities: { kernel_ops: [], channels: [] },
  onEnable(ctx) {
    ctx.log("info", `${ctx.settings?.greeting ?? "Hello"}, it is on`);
  },
  onDisable(ctx) {
    ctx.log("info", "it is off");
  },
};
