// What MetaHuman's skills import as `packages/core/src/skills`: types, the names of the checks, and nothing that acts.

import { short } from "./stacks.mjs";

// Whether a path is allowed is for the host to say, before anything is run. In here nobody knows, and must not seem to.
function asked(name: string): (value: unknown) => boolean {
  return () => {
    const how = "it is asked before the run, where a validation does nothing but ask it";
    throw short(new ReferenceError(`${name} is not defined in code; ${how}`));
  };
}

export const isWithinAllowedDirectory = asked("isWithinAllowedDirectory");
export const isWriteAllowed = asked("isWriteAllowed");
export const isValidAgent = asked("isValidAgent");
export const isWhitelisted = asked("isWhitelisted");

export type ValueType = "string" | "number" | "boolean" | "object" | "array";

export interface SkillInput {
  type: ValueType;
  required: boolean;
  description: string;
  // deno-lint-ignore no-explicit-any
  validation?: (value: any) => boolean;
}

export interface SkillOutput {
  type: ValueType;
  description: string;
}

export type TrustLevel = "observe" | "suggest" | "supervised_auto" | "bounded_auto" | "adaptive_auto";

export interface SkillManifest {
  id: string;
  name: string;
  description: string;
  category: "fs" | "memory" | "agent" | "shell" | "network";
  inputs: { [name: string]: SkillInput };
  outputs: { [name: string]: SkillOutput };
  risk: "low" | "medium" | "high";
  cost: "free" | "cheap" | "expensive";
  minTrustLevel: TrustLevel;
  requiresApproval: boolean;
  allowedDirectories?: string[];
  commandWhitelist?: string[];
  version?: string;
}

export interface SkillResult {
  success: boolean;
  // deno-lint-ignore no-explicit-any
  outputs?: { [name: string]: any };
  error?: string;
  // deno-lint-ignore no-explicit-any
  [name: string]: any;
}
