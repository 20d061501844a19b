// A door with a bell: ringing it is a message that arrives on a channel of its own.

class DoorbellModule {
  _name = "doorbell";
  rings = 0;

  constructor(ctx) {
    this.ctx = ctx;
  }

  async _ring({ visitor = "somebody" }) {
    this.rings += 1;
    return await this.ctx.execute("channels", "route_inbound_message", {
      channel: "door",
      from: visitor,
      text: `${visitor} is at the door`,
    });
  }

  _status() {
    return { rings: this.rings };
  }
}

export const skill = {
  id: "@metier-examples/doorbell",
  version: "0.2.0",
  name: "Doorbell",
  description: "Tells the owner who is at the door.",
  settings: {
    defaults: { volume: 3, tone: "chime", quiet: { from: "22:00", until: "07:00" } },
    schema: {
      title: "Doorbell",
      fields: [
        { key: "volume", label: "Volume", type: "number", help: "From 0 to 10" },
        {
          key: "tone",
          label: "Tone",
          type: "select",
          options: [{ label: "Chime", value: "chime" }, { label: "Buzzer", value: "buzzer" }],
        },
        { key: "quiet.from", label: "Quiet from", type: "string", placeholder: "22:00" },
        { key: "quiet.until", label: "Quiet until", type: "string", placeholder: "07:00" },
        { key: "known", label: "Known visitors", type: "string_list" },
        { key: "camera.pin", label: "PIN of the camera", type: "string", secret: true },
      ],
    },
    sensitive: ["camera.token"],
  },
  capabilities: {
    kernel_ops: ["channels.configure", "channels.route_inbound_message"],
    channels: ["door"],
  },
  async onEnable(ctx) {
    ctx.registerModule(new DoorbellModule(ctx));
    await ctx.execute("channels", "register", { channel: "door", connector_module: "doorbell" });
    await ctx.execute("channels", "configure", { channel: "door", config: { mode: "inbound" } });
    ctx.log("info", "the bell is on");
  },
  onDisable(ctx) {
    ctx.log("info", "the bell is off");
  },
};
