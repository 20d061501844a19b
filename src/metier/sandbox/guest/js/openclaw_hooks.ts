// What hooks import as `openclaw/hooks`: the types of an event, and `runHook`.

import { take } from "./hook.mjs";

/** One file of those an agent is started with. */
export interface BootstrapFile {
  path: string;
  content: string;
  /** Made up by a hook; no such file need exist. */
  virtual?: boolean;
}

/** What a hook may look at and change. What it leaves here is the hook's result. */
export interface HookContext {
  bootstrapFiles: BootstrapFile[];
  workspaceDir?: string;
  /** On events about tools. What the tool said is in the variable CLAUDE_TOOL_OUTPUT. */
  toolName?: string;
  /** Its arguments; with a mask over what is likely a secret, unless the hook is a gate. */
  params?: Record<string, unknown>;
  skill?: string;
  callId?: string;
  outcome?: "completed" | "failed";
  error?: string;
  /** On events about messages. */
  from?: string;
  to?: string;
  content?: string;
  channelId?: string;
  conversationId?: string;
  messageId?: string;
  /** For a gate hook to leave: what it says about the call, and why. */
  decision?: "allow" | "ask" | "deny";
  reason?: string;
}

/** What happened. */
export interface HookEvent {
  type: "agent" | "tool" | "message";
  action: string;
  sessionKey: string;
  context: HookContext;
}

/** What comes out of a hook: the context as it left it. */
export type HookResult = HookContext;

export type HookHandler = (event: HookEvent) => Promise<void>;

/** Have `handler` work on the event of this run; the context as it leaves it is the result. */
export async function runHook(handler: HookHandler): Promise<void> {
  await take(handler);
}
