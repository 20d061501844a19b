// What XBot's skills import as `@xpell/agent`, `@xpell/core` and `@xpell/node`: the types of the contract, the base class of modules,
// errors with a code, and a log. The runtime itself (`_x`) is nothing that a skill may have; it asks by `ctx.execute`.

import { named } from "./stacks.mjs";
import { XModule as Base } from "./xmodule.mjs";

// deno-lint-ignore-file no-explicit-any

export type XBotSkillCapability = {
  /** Each `module.op`. */
  kernel_ops?: string[];
  channels?: string[];
  network?: boolean;
};

export interface XBotSkillSettings {
  defaults?: Record<string, any>;
  schema?: {
    title?: string;
    fields: Array<{
      key: string;
      label: string;
      type: "string" | "number" | "boolean" | "select" | "string_list";
      help?: string;
      secret?: boolean;
      options?: Array<{ label: string; value: any }>;
      placeholder?: string;
    }>;
  };
  /** Dotted paths. */
  sensitive?: string[];
}

export interface XBotSkill {
  id: string;
  version: string;
  name?: string;
  description?: string;
  settings?: XBotSkillSettings;
  capabilities?: XBotSkillCapability;
  onEnable(ctx: XBotSkillContext): void | Promise<void>;
  onDisable?(ctx: XBotSkillContext): void | Promise<void>;
  [further: string]: any;
}

export interface XBotSkillContext {
  execute(module: string, op: string, params?: any, meta?: any): Promise<any>;
  registerModule(moduleInstance: any): void;
  emit(eventName: string, payload: any): void;
  log(level: "debug" | "info" | "warn" | "error", msg: string, meta?: any): void;
  skill: { id: string; version: string };
  state_get(key: string): Promise<any>;
  state_set(key: string, value: any): Promise<any>;
}

export type XModuleData = { _name: string; [further: string]: any };

/** What a method `_op` of a module is given: the parameters, and these. */
export type XCommandData = { _module: string; _op: string; _params?: any; [parameter: string]: any };
export type XCommand = XCommandData;

/** The base class of a module: its methods `_op` are its operations. */
export const XModule = Base as unknown as {
  new (data?: XModuleData | string): {
    _name: string;
    load(): void | Promise<void>;
    execute(command: XCommandData): Promise<any>;
    onEvent?(name: string, payload: any, meta: { source: string; at: number }): void | Promise<void>;
  };
};
export type XModule = InstanceType<typeof XModule>;

/** An error with a code, which is what whoever asked is told. */
export class XError extends Error {
  readonly code: string;
  readonly _code: string;

  constructor(code: string, message?: string) {
    super(message ?? code);
    this.name = "XError";
    this.code = this._code = code;
  }

  toXData(): { code: string; message: string } {
    return { code: this.code, message: this.message };
  }
}

const { debug, info, warn, error } = console;

/** Ends in the log of the life. */
export const _xlog = { debug, log: info, info, warn, error };

function refuse(): never {
  throw named("E_AGENT_FORBIDDEN", "_x is not there for skills; have operations done with ctx.execute(module, op, params)");
}

export const _x: any = new Proxy({}, { get: refuse, set: refuse, has: refuse });
