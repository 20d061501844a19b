// What the function runs. `message` is what the caller hears, `result` is for the program that asked.
module.exports = async function ({ text }, context) {
  const words = text.split(/\s+/).filter(Boolean).length;
  return { success: true, message: `That is ${words} words.`, result: { words } };
};
