"""The SageMaker dialect: training jobs as boto3, the AWS CLI and Airflow know them. A subset."""
