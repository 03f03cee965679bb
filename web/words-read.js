// The words of the pages to read.
export const words = {
  en: {
    pages: "Pages", search: "Search", searchAll: "Search all pages", g_: "Guides", g_modes: "Modes", g_decisions: "Decisions", hits: "{n} [place|places] for “{q}”", mostHits: "The first {n} places for “{q}”",
    noHits: "Nothing for “{q}”.", runThis: "Run {mode}", inMatrix: "What breaks it", onlyEnglish: "This page is in English only.", diagramSource: "Source of the diagram", notDrawn: "This diagram has not been drawn; here is its source.",
    noPage: "There is no such page.", diagram: "Diagram",
  },
  zh: {
    pages: "页面", search: "搜索", searchAll: "搜索全部页面", g_: "指南", g_modes: "模式", g_decisions: "决策记录", hits: "“{q}”共 {n} 处", mostHits: "“{q}”的前 {n} 处",
    noHits: "没有找到“{q}”。", runThis: "运行 {mode}", inMatrix: "什么会打破它", onlyEnglish: "本页只有英文。", diagramSource: "图的源文本", notDrawn: "这张图还没有画出来，下面是它的源文本。",
    noPage: "没有这个页面。", diagram: "图",
  },
};
