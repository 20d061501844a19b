// The acts of a guest in JavaScript; what each must do is said where the Python ones are. Runs in Deno, inside a
// sandbox and, as the control, outside with every permission.

class Tries {
  did = [];
  refused = {};
  async try(name, attempt) {
    try {
      await attempt();
      this.did.push(name);
    } catch (error) {
      this.refused[name] = `${error?.name}`;
    }
  }
  said() {
    return { did: this.did, refused: this.refused };
  }
}

const text = (data) => new TextDecoder().decode(data);
const must = (holds) => {
  if (!holds) throw new Error("not there");
};
const temporary = () => Deno.cwd();
const program = async (name, args) => {
  const done = await new Deno.Command(name, { args }).output();
  must(done.success);
  return text(done.stdout);
};

// What this language does not have at all: another program must be started, or native code loaded, to do it.
const beyond = async () => {
  const tries = new Tries();
  await tries.try("command", () => program("/bin/true", []));
  await tries.try("node_command", async () => {
    const { execFileSync } = await import("node:child_process");
    execFileSync("/bin/true");
  });
  await tries.try("foreign_functions", () => Deno.dlopen("libc.so.6", {}).close());
  await tries.try("signal", () => Deno.kill(1, "SIGCONT"));
  return tries.said();
};

const acts = {
  echo: (params) => params,
  loop() {
    for (;;);
  },
  regex: () => /(a+)+$/.test("a".repeat(60) + "b"),
  async sleep(params) {
    await new Promise((done) => setTimeout(done, params.seconds * 1000));
    return "slept";
  },
  stop() {
    Deno.kill(Deno.pid, "SIGSTOP");
    return "went on";
  },
  async crash(params) {
    const names = { 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV" };
    Deno.kill(Deno.pid, names[params.signal]);
    await new Promise((done) => setTimeout(done, 10_000));
  },
  daemons: beyond,
  keep_words: beyond,
  deaf: beyond,
  forks: beyond,
  children_memory: beyond,
  system_calls: beyond,
  privilege: beyond,
  others: beyond,
  other_word: beyond,
  trace: beyond,
  async descriptors() {
    const tries = new Tries();
    await tries.try("list", () => must([...Deno.readDirSync("/proc/self/fd")].length));
    await tries.try("read_3", () => Deno.readFileSync("/proc/self/fd/3"));
    await tries.try("node_read_3", async () => {
      const fs = await import("node:fs");
      fs.fstatSync(3);
    });
    return tries.said();
  },
  memory(params) {
    const held = [];
    for (let mb = 0; mb < params.mb; mb += 4) {
      if (params.kind === "heap") held.push(Array.from({ length: 1 << 18 }, (_, i) => ({ i })));
      else if (params.kind === "mapped") held.push(new Uint8Array(4 << 20).fill(1));
      else if (params.kind === "shared") held.push(new Uint8Array(new SharedArrayBuffer(4 << 20)).fill(1));
      else held.push(new Uint8Array(new WebAssembly.Memory({ initial: 64 }).buffer).fill(1));
    }
    return { mb: 4 * held.length };
  },
  async huge(params) {
    const tries = new Tries();
    await tries.try("two_gigabytes", () => new ArrayBuffer(2 ** 31).byteLength);
    await tries.try("eight_gigabytes", () => new ArrayBuffer(8 * 2 ** 30).byteLength);
    await tries.try("one_terabyte", () => new ArrayBuffer(2 ** 40).byteLength);
    if (params.text) await tries.try("one_text", () => "x".repeat(2 ** 30));
    return tries.said();
  },
  async threads(params) {
    const held = [];
    let why = "";
    const source = `data:text/javascript,${encodeURIComponent("postMessage(1); setInterval(() => {}, 1000)")}`;
    try {
      while (held.length < params.most) {
        const worker = new Worker(source, { type: "module" });
        await new Promise((done, failed) => {
          worker.onmessage = done;
          worker.onerror = (event) => (event.preventDefault(), failed(new Error("refused")));
        });
        held.push(worker);
      }
    } catch (error) {
      why = `${error.name}`;
    }
    for (const worker of held) worker.terminate();
    return { count: held.length, why };
  },
  open_files(params) {
    Deno.writeTextFileSync("opened", "");
    const held = [];
    let why = "";
    try {
      while (held.length < params.most) held.push(Deno.openSync("opened"));
    } catch (error) {
      why = `${error.name}`;
    }
    for (const file of held) file.close();
    return { count: held.length, why };
  },
  fill(params) {
    const folder = `${params.folder || temporary()}/filled`;
    Deno.mkdirSync(folder);
    let made = 0, why = "";
    try {
      if (params.kind === "large") {
        const piece = new Uint8Array(params.mb << 20).fill(1);
        for (; made < params.most; made++) Deno.writeFileSync(`${folder}/${made}`, piece);
      } else if (params.kind === "small") {
        for (; made < params.most; made++) {
          Deno.mkdirSync(`${folder}/${made}`);
          for (let i = 0; i < 2000; i++) Deno.createSync(`${folder}/${made}/${i}`).close();
        }
      } else {
        Deno.writeTextFileSync(`${folder}/sparse`, "");
        Deno.truncateSync(`${folder}/sparse`, 2 ** 40);
        made++;
      }
    } catch (error) {
      why = `${error.name}`;
    }
    return { made, why };
  },
  recursion(params) {
    if (!params.unbounded) {
      const down = (depth) => down(depth + 1) + 1;
      return down(0);
    }
    return JSON.parse("[".repeat(5_000_000));
  },
  async end(params) {
    if (params.how === "raise") throw new RangeError(params.text);
    if (params.how === "leave") await new Promise(() => {});
    Deno.exit(params.code);
  },
  flood(params) {
    const piece = new Uint8Array(65_536).fill(120);
    for (let written = 0; !params.mb || written < params.mb << 20; written += piece.length) {
      Deno.stdout.writeSync(piece);
      Deno.stderr.writeSync(piece);
    }
    return "done";
  },
  write(params) {
    const bytes = Uint8Array.from(params.hex.match(/../g), (two) => parseInt(two, 16));
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
    return "written";
  },
  talk(params) {
    console.log(params.text);
    return params;
  },
  read_input() {
    const first = Deno.stdin.readSync(new Uint8Array(100)) ?? 0;
    return { first, read: first };
  },
  async burn(params) {
    Deno.stderr.writeSync(new Uint8Array(params.output).fill(101));
    const held = new Uint8Array(params.mb << 20).fill(1);
    const { cpuUsage } = await import("node:process");
    const used = () => cpuUsage().user + cpuUsage().system;
    while (used() < params.cpu * 1e6) for (let i = 0; i < 1e5; i++);
    if (params.stay) await new Promise((done) => setTimeout(done, 60_000));
    return held.length ? "burned" : "";
  },
  async break_itself(params) {
    Deno.writeTextFileSync("mark", "was here");
    if (params.meet) {
      acts.held = Deno.openSync(`${params.meet}/ready`, { write: true, create: true });
      const names = () => [...Deno.readDirSync(params.meet)].map((entry) => entry.name);
      while (!names().includes("go")) await new Promise((done) => setTimeout(done, 5));
    }
    if (params.crash) Deno.exit(1);
    if (params.how === "memory") acts.memory({ kind: "mapped", mb: 4000 });
    await new Promise((done) => setTimeout(done, 60_000));
  },
  look_for_mark(params) {
    const files = [];
    const others = params.own ? [] : ["/tmp", "/var/tmp", "/dev/shm"];
    for (const folder of [".", ...others]) {
      try {
        for (const entry of Deno.readDirSync(folder)) if (entry.name.startsWith("mark")) files.push(entry.name);
      } catch { /* not to be seen */ }
    }
    let stored = false;
    try {
      stored = localStorage.getItem("mark") !== null;
    } catch { /* none to be had */ }
    let variable = false;
    try {
      variable = Deno.env.has("MARK");
    } catch { /* not to be asked for */ }
    const said = {
      files,
      module: stored,
      name: "mark" in globalThis || "mark" in Object.prototype,
      variable,
      random: [Math.random(), crypto.getRandomValues(new Uint32Array(1))[0]],
    };
    if (params.leave) {
      for (const folder of [...(params.work ? [] : ["."]), ...others]) {
        try {
          Deno.writeTextFileSync(`${folder}/mark`, "was here");
        } catch { /* not to be written */ }
      }
      globalThis.mark = true;
      Object.prototype.mark = true;
      try {
        localStorage.setItem("mark", "1");
      } catch { /* none to be had */ }
    }
    return said;
  },
  environment(params) {
    let variables = {};
    try {
      variables = Deno.env.toObject();
    } catch {
      for (const name of params.names) {
        try {
          const value = Deno.env.get(name);
          if (value !== undefined) variables[name] = value;
        } catch { /* not granted */ }
      }
    }
    const seen = [];
    for (const pid of ["self", "1", "2", `${params.pid}`]) {
      try {
        if (Deno.readTextFileSync(`/proc/${pid}/environ`).includes(params.secret)) seen.push(pid);
      } catch { /* not to be read */ }
    }
    let home = false;
    try {
      Deno.writeTextFileSync(`${variables.HOME}/written`, "from inside");
      home = true;
    } catch { /* none, or not to be written */ }
    return { variables, seen, home };
  },
  here(params) {
    if (params.name) Deno.writeTextFileSync(params.name, "from inside");
    return { cwd: Deno.cwd(), files: [...Deno.readDirSync(".")].map((entry) => entry.name).sort() };
  },
  async read_outside(params) {
    const { file, secret } = params;
    const folder = file.slice(0, file.lastIndexOf("/"));
    const tries = new Tries();
    const found = (data) => must(`${data}`.includes(secret));
    await tries.try("open", () => found(Deno.readTextFileSync(file)));
    await tries.try("list", () => must([...Deno.readDirSync(folder)].length));
    await tries.try("fetch", async () => found(await (await fetch(`file://${file}`)).text()));
    await tries.try("import_json", async () => {
      await import(`file://${folder}/data.json`, { with: { type: "json" } });
    });
    await tries.try("import_text", async () => {
      await import(`file://${file}`, { with: { type: "text" } });
    });
    await tries.try("node", async () => found((await import("node:fs")).readFileSync(file)));
    await tries.try("require", async () => {
      (await import("node:module")).createRequire(`file://${folder}/x.js`)("./data.json");
    });
    await tries.try("root_of_another", () => found(Deno.readTextFileSync(`/proc/${params.pid}/root${file}`)));
    await tries.try("environment_of_another", () => found(Deno.readTextFileSync(`/proc/${params.pid}/environ`)));
    await tries.try("environment_of_the_first", () => found(Deno.readTextFileSync("/proc/1/environ")));
    await tries.try("passwords", () => must(Deno.readTextFileSync("/etc/passwd").includes("root:")));
    await tries.try("home", () => {
      const names = new Set([...Deno.readDirSync(params.home)].map((entry) => entry.name));
      must(params.names.every((name) => names.has(name)));
    });
    await tries.try("write", () => Deno.writeTextFileSync(file, "\n", { append: true }));
    await tries.try("create", () => Deno.writeTextFileSync(`${folder}/made`, "from inside"));
    await tries.try("remove", () => Deno.removeSync(`${folder}/removable`));
    return tries.said();
  },
  around(params) {
    const mayBeSeen = [...params.may_be_seen, Deno.cwd()];
    const seen = {};
    for (const start of params.starts) {
      const found = [], waiting = mayBeSeen.includes(start) ? [] : [start];
      while (waiting.length && found.length < 20) {
        const folder = waiting.pop();
        try {
          for (const { name } of Deno.readDirSync(folder)) {
            const path = `${folder === "/" ? "" : folder}/${name}`;
            if (mayBeSeen.some((each) => each.startsWith(`${path}/`))) waiting.push(path);
            else if (!mayBeSeen.includes(path)) found.push(path);
          }
        } catch { /* not to be listed */ }
      }
      if (found.length) seen[start] = found;
    }
    for (const path of params.files) {
      try {
        Deno.readFileSync(path);
        seen[path] = [path];
      } catch { /* not to be read */ }
    }
    return { did: Object.keys(seen).sort(), seen };
  },
  async make_files(params) {
    const own = [Deno.cwd(), ...params.own];
    const folders = [...params.folders];
    try {
      if (params.top) folders.push(...[...Deno.readDirSync("/")].map(({ name }) => `/${name}`));
    } catch { /* not to be listed */ }
    const tries = new Tries();
    for (const folder of new Set(folders)) {
      if (own.some((each) => folder === each || folder.startsWith(`${each}/`))) continue;
      const path = `${folder}/metier-kit-made`;
      await tries.try(folder, () => {
        Deno.openSync(path, { write: true, createNew: true }).close();
        Deno.removeSync(path);
      });
    }
    return tries.said();
  },
  async exists(params) {
    const tries = new Tries();
    await tries.try("stat", () => Deno.statSync(params.file));
    await tries.try("node", async () => must((await import("node:fs")).existsSync(params.file)));
    return tries.said();
  },
  async links(params) {
    const { inside, file, secret } = params;
    const at = file.lastIndexOf("/");
    const [outside, name] = [file.slice(0, at), file.slice(at + 1)];
    const tries = new Tries();
    const read = (path) => must(Deno.readTextFileSync(path).includes(secret));
    await tries.try("shipped_to_file", () => read(`${inside}/shipped_file`));
    await tries.try("shipped_to_folder", () => read(`${inside}/shipped_folder/${name}`));
    await tries.try("listed_through_shipped", () => must([...Deno.readDirSync(`${inside}/shipped_folder/`)].length));
    await tries.try("created_through_shipped", () => Deno.writeTextFileSync(`${inside}/shipped_missing`, "x"));
    await tries.try("made_to_file", () => {
      Deno.symlinkSync(file, `${inside}/made_file`);
      read(`${inside}/made_file`);
    });
    await tries.try("made_to_folder", () => {
      Deno.symlinkSync(outside, `${inside}/made_folder`);
      read(`${inside}/made_folder/./${name}`);
    });
    await tries.try("made_hard_link", () => {
      Deno.linkSync(file, `${inside}/made_hard`);
      read(`${inside}/made_hard`);
    });
    await tries.try("moved_in", () => {
      Deno.renameSync(`${outside}/movable`, `${inside}/moved`);
      read(`${inside}/moved`);
    });
    await tries.try("moved_out", () => {
      Deno.writeTextFileSync(`${inside}/leaving`, "");
      Deno.renameSync(`${inside}/leaving`, `${outside}/arrived`);
    });
    return tries.said();
  },
  async change(params) {
    const { file, writable } = params;
    const tries = new Tries();
    await tries.try("write", () => Deno.writeTextFileSync(file, "changed"));
    await tries.try("truncate", () => Deno.truncateSync(file, 0));
    await tries.try("mode", () => Deno.chmodSync(file, 0o777));
    await tries.try("owner", () => Deno.chownSync(file, 12345, 12345));
    await tries.try("times", () => Deno.utimeSync(file, 1, 1));
    if (writable) {
      await tries.try("hard_link", () => {
        Deno.linkSync(file, `${writable}/linked`);
        Deno.writeTextFileSync(`${writable}/linked`, "changed");
      });
    }
    await tries.try("beside", () => Deno.writeTextFileSync(`${file}.made`, "from inside"));
    await tries.try("rename", () => Deno.renameSync(file, `${file}.moved`));
    await tries.try("remove", () => Deno.removeSync(file));
    return tries.said();
  },
  async devices(params) {
    const tries = new Tries();
    for (const path of ["/dev/kmsg", "/dev/mem", "/proc/kcore", params.disk]) {
      await tries.try(path, () => Deno.openSync(path).close());
    }
    for (const path of ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/hostname"]) {
      await tries.try(path, () => Deno.openSync(path, { write: true }).close());
    }
    await tries.try("other_processes", () => {
      must([...Deno.readDirSync("/proc")].some((entry) => entry.name === `${params.pid}`));
    });
    await tries.try("/sys", () => must([...Deno.readDirSync("/sys/kernel")].length));
    return tries.said();
  },
  async shipped() {
    let mapped = true;
    try {
      await import("planted");
    } catch {
      mapped = false;
    }
    return { json: mapped, customized: [], path: [] };
  },
  async network(params) {
    const tries = new Tries();
    const reach = async (options) => (await Deno.connect(options)).close();
    await tries.try("tcp", () => reach({ hostname: "127.0.0.1", port: params.tcp }));
    await tries.try("tcp_version_6", () => reach({ hostname: "::1", port: params.tcp6 }));
    await tries.try("listen", () => Deno.listen({ hostname: "127.0.0.1", port: 0 }).close());
    await tries.try("fetch", async () => {
      await fetch(`http://127.0.0.1:${params.tcp}/`);
    });
    await tries.try("websocket", () =>
      new Promise((done, failed) => {
        const socket = new WebSocket(`ws://127.0.0.1:${params.tcp}/`);
        socket.onopen = done;
        socket.onerror = failed;
      }));
    await tries.try("node", async () => {
      const net = await import("node:net");
      await new Promise((done, failed) => {
        const socket = net.connect(params.tcp, "127.0.0.1");
        socket.on("connect", () => (socket.destroy(), done()));
        socket.on("error", failed);
      });
    });
    await tries.try("import", async () => {
      await import(`http://127.0.0.1:${params.tcp}/module.js`);
    });
    await tries.try("package", async () => {
      await import("npm:left-pad@1.3.0");
    });
    await tries.try("names", async () => must((await Deno.resolveDns("localhost", "A")).length));
    await tries.try("sees_tcp", () => {
      const port = params.tcp.toString(16).toUpperCase().padStart(4, "0");
      must(Deno.readTextFileSync("/proc/net/tcp").includes(`:${port} `));
    });
    await tries.try("sees_devices", () => must([...Deno.readDirSync("/sys/class/net")].length > 1));
    await tries.try("sees_interfaces", () => must(Deno.networkInterfaces().some((each) => each.name !== "lo")));
    return tries.said();
  },
  async by_grant(params, context) {
    // Inside the one way out is the host; outside a proxy is asked, as its environment says.
    const ask = context?.http
      ? async (url) => JSON.stringify(await context.http.request({ url }))
      : async (url) => await (await fetch(url)).text();
    const tries = new Tries();
    for (const [name, url] of Object.entries(params.ways)) {
      await tries.try(name, async () => must((await ask(url)).includes(params.word)));
    }
    return tries.said();
  },
  async set_id(params) {
    const tries = new Tries();
    const rights = () => [...Deno.readDirSync(params.folder)].filter((entry) =>
      Deno.statSync(`${params.folder}/${entry.name}`).mode & 0o6000
    );
    await tries.try("chmod", () => {
      Deno.writeTextFileSync(`${params.folder}/chmod`, "#!/bin/sh\n");
      Deno.chmodSync(`${params.folder}/chmod`, 0o4755);
      must(Deno.statSync(`${params.folder}/chmod`).mode & 0o6000);
    });
    await tries.try("open", () => {
      const before = rights().length;
      Deno.openSync(`${params.folder}/open`, { write: true, create: true, mode: 0o4755 }).close();
      must(rights().length > before);
    });
    await tries.try("node", async () => {
      const fs = await import("node:fs");
      fs.writeFileSync(`${params.folder}/node`, "#!/bin/sh\n");
      fs.chmodSync(`${params.folder}/node`, 0o4755);
      must(fs.statSync(`${params.folder}/node`).mode & 0o6000);
    });
    return tries.said();
  },
  async stay(params) {
    const mine = `${Deno.cwd()}/of-a-neighbour`;
    Deno.writeTextFileSync(mine, params.secret);
    Deno.writeTextFileSync(`${params.folder}/where`, mine);
    await new Promise((done) => setTimeout(done, params.seconds * 1000));
  },
  async files_of_others(params) {
    const { file, secret } = params;
    const tries = new Tries();
    const read = (path) => must(Deno.readTextFileSync(path).includes(secret));
    await tries.try("read", () => read(file));
    await tries.try("write", () => {
      must(Deno.statSync(file).size === secret.length);
      Deno.openSync(file, { write: true }).close();
    });
    await tries.try("granted", () => must([...Deno.readDirSync(params.granted)].length));
    for (const pid of params.pids) {
      await tries.try("by_its_root", () => read(`/proc/${pid}/root${file}`));
      await tries.try("by_its_folder", () => must([...Deno.readDirSync(`/proc/${pid}/cwd/`)].length));
    }
    return tries.said();
  },
  async unix_sockets(params) {
    const tries = new Tries();
    await tries.try("path_stream", async () => (await Deno.connect({ transport: "unix", path: params.path })).close());
    await tries.try("node", async () => {
      const net = await import("node:net");
      await new Promise((done, failed) => {
        const socket = net.connect(params.path);
        socket.on("connect", () => (socket.destroy(), done()));
        socket.on("error", failed);
      });
    });
    return tries.said();
  },
  async terminal() {
    const tries = new Tries();
    await tries.try("open", () => Deno.openSync("/dev/tty", { read: true, write: true }).close());
    await tries.try("stdin", () => must(Deno.stdin.isTerminal()));
    await tries.try("stdout", () => must(Deno.stdout.isTerminal()));
    await tries.try("size", () => Deno.consoleSize());
    await tries.try("prompt", () => must(prompt("") !== null));
    return tries.said();
  },
  async made_code(params) {
    const { file, secret } = params;
    const tries = new Tries();
    const reading = `Deno.readTextFileSync(${JSON.stringify(file)})`;
    const found = (data) => must(`${data}`.includes(secret));
    await tries.try("evaluated", () => found((0, eval)(reading)));
    await tries.try("by_new_function", () => found(new Function(`return ${reading}`)()));
    await tries.try("by_a_data_import", async () => {
      const source = `data:text/javascript,${encodeURIComponent(`export default ${reading}`)}`;
      found((await import(source)).default);
    });
    await tries.try("by_a_worker", async () => {
      const source = `data:text/javascript,${encodeURIComponent(`postMessage(${reading})`)}`;
      found(await new Promise((done, failed) => {
        const worker = new Worker(source, { type: "module" });
        worker.onmessage = (event) => (worker.terminate(), done(event.data));
        worker.onerror = (event) => (event.preventDefault(), worker.terminate(), failed(new Error("refused")));
      }));
    });
    await tries.try("by_a_shell", async () => found(await program("/bin/cat", [file])));
    await tries.try("by_node", async () => {
      const { execFileSync } = await import("node:child_process");
      found(execFileSync("/bin/cat", [file]));
    });
    await tries.try("by_foreign_functions", () => {
      Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } }).close();
    });
    await tries.try("by_another_context", async () => {
      const vm = await import("node:vm");
      found(vm.runInNewContext("read()", { read: () => Deno.readTextFileSync(file) }));
    });
    await tries.try("by_a_wider_permission", async () => {
      const status = await Deno.permissions.request({ name: "read", path: file });
      must(status.state === "granted");
    });
    return tries.said();
  },
  async ask(params, context) {
    const said = [];
    for (const [method, given] of params.asks) {
      try {
        said.push({ value: await context.exec([method, JSON.stringify(given)]) });
      } catch (error) {
        const more = Object.keys(error).sort();
        said.push({ name: error.name, shown: `${error.message}${error.stack ?? ""}`, more });
      }
    }
    return said;
  },
  async ask_late(_params, context) {
    await context.exec(["first"]);
    const late = () => context.exec(["late"]).catch(() => {}).then(() => setTimeout(late, 20));
    setTimeout(late, 0);
    return "over";
  },
  async read_frames(params, context) {
    const tries = new Tries();
    const room = new Uint8Array(4096);
    const fs = await import("node:fs"); // first of all: what is read while it is loaded is nobody's find
    // Several, because the library has a read under way already, and takes one.
    const answers = Promise.all(Array.from({ length: 6 }, () => context.exec(["who"])));
    const seen = () => must(text(room).includes(params.word));
    if (params.by === "library") {
      await tries.try("stdin", () => (Deno.stdin.readSync(room), seen()));
      await tries.try("file", () => (Deno.openSync("/dev/stdin").readSync(room), seen()));
      await tries.try("node", async () => ((await import("node:process")).stdin.read(), seen()));
    } else {
      await tries.try("node", () => (fs.readSync(0, room), seen()));
      if (tries.did.length) {
        console.log(text(room)); // and the library would wait for what we took
        Deno.exit(0);
      }
    }
    await answers;
    return tries.said();
  },
  async ask_badly(_params, context) {
    const cycle = [];
    cycle.push(cycle);
    const said = [];
    for (const bad of [cycle, 10n, { toJSON() { throw new TypeError("no"); } }]) {
      try {
        await context.exec(["bad", bad]);
      } catch (error) {
        said.push(`${error.name}`);
      }
    }
    return said;
  },
  ask_through_others: beyond,
  async forge(params) {
    const line = '{"jsonrpc":"2.0","id":0,"result":"forged"}\n';
    console.log(line);
    const data = new TextEncoder().encode(params.with_key ? `${"0".repeat(32)} ${line}` : line);
    if (params.on_bridge) {
      const fs = await import("node:fs");
      for (const number of [1, 3]) {
        try {
          fs.writeSync(number, data);
        } catch { /* not there */ }
      }
    } else {
      await Deno.stdout.write(data);
    }
    return "true";
  },
  odd_result(params) {
    const cycle = [];
    cycle.push(cycle);
    let deep = 0;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    switch (params.kind) {
      case "object":
        return { get value() { throw new Error("ran in the host"); } };
      case "set":
        return { then: (done) => done(Symbol("none")) };
      case "cycle":
        return cycle;
      case "deep":
        return deep;
      case "not_a_number":
        return { value: 10n };
      case "bytes":
        return { toJSON: () => 10n };
      case "long":
        return "x".repeat(params.bytes + 100);
      case "half_a_character":
        return "\ud800";
      case "great_number":
        return () => 1;
      case "text":
        return "plain";
      case "proto":
        return JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}');
      default:
        JSON.stringify = () => "not json\n{";
        Array.prototype.join = () => "not json";
        return "patched";
    }
  },
};
