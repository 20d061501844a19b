// A skill that is its own manifest. Its types come from where MetaHuman keeps them; Metier knows that place.
import { SkillManifest, SkillResult } from '../../packages/core/src/skills.js';

export const manifest: SkillManifest = {
  id: 'reading_time',
  name: 'Reading time',
  description: 'Say how many minutes it takes to read a text aloud or in silence.',
  category: 'memory',
  inputs: {
    text: { type: 'string', required: true, description: 'What is to be read' },
    wordsPerMinute: {
      type: 'number',
      required: false,
      description: 'How fast; 220 is usual in silence, 150 aloud',
      validation: (pace) => pace >= 50 && pace <= 1000,
    },
  },
  outputs: {
    words: { type: 'number', description: 'How many words there are' },
    minutes: { type: 'number', description: 'How long it takes, to half a minute' },
  },
  risk: 'low',
  cost: 'free',
  minTrustLevel: 'observe',
  requiresApproval: false,
};

export async function execute(inputs: { text: string; wordsPerMinute?: number }): Promise<SkillResult> {
  const words = inputs.text.split(/\s+/u).filter((word) => word !== '').length;
  const minutes = Math.ceil((2 * words) / (inputs.wordsPerMinute ?? 220)) / 2;
  return { success: true, outputs: { words, minutes } };
}
