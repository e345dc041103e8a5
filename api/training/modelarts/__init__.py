"""The ModelArts dialect: training jobs as Huawei Cloud's SDK knows them."""
